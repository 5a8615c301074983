rule analyse:
    input:
        plan=ancient(rules.plan.output.plan),
        validation=rules.validate.output.validation,
        attempts=rules.aggregate.output.attempts,
        records=rules.aggregate.output.records,
    output:
        cells=f"{ROOT}/tables/cells.parquet",
        contrasts=f"{ROOT}/tables/contrasts.parquet",
        statistics=f"{ROOT}/statistics.json",
    log:
        f"{ROOT}/logs/analyse.log",
    benchmark:
        f"{ROOT}/benchmarks/analyse.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "analyse: levels, contrasts, verdicts"
    shell:
        'exec python workflow/scripts/analyse.py --results "$(dirname {input.plan:q})" 2> {log:q}'
