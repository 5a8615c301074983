rule analyse:
    input:
        plan=ancient(rules.plan.output.plan),
        validation=rules.validate.output.validation,
        tables=rules.aggregate.output,
    output:
        statistics=f"{ROOT}/statistics.json",
    log:
        f"{ROOT}/logs/analyse.log",
    benchmark:
        f"{ROOT}/benchmarks/analyse.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "analyse: levels, contrasts, resizes, decision"
    shell:
        "exec python workflow/scripts/elastic/analyse.py --results $(dirname {input.plan}) 2> {log}"
