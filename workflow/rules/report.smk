rule report:
    input:
        plan=ancient(rules.plan.output.plan),
        statistics=rules.analyse.output.statistics,
        validation=rules.validate.output.validation,
        figures=rules.plots.output,
    output:
        markdown=f"{ROOT}/RESULTS.md",
        html=report(
            f"{ROOT}/report.html", caption="../report/report.rst", category="Report"
        ),
        pull_request=f"{ROOT}/pr.md",
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "write RESULTS.md, report.html and pr.md"
    shell:
        'exec python workflow/scripts/report.py --results "$(dirname {input.plan:q})" 2> {log:q}'
