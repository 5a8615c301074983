rule report:
    input:
        plan=ancient(rules.plan.output.plan),
        statistics=rules.analyse.output.statistics,
        figures=rules.plots.output,
    output:
        markdown=f"{ROOT}/RESULTS.md",
        html=report(
            f"{ROOT}/report.html",
            caption="../../report/report.rst",
            category="Report",
        ),
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "write RESULTS.md and report.html"
    shell:
        "exec python workflow/scripts/elastic/report.py --results $(dirname {input.plan}) 2> {log}"
