rule aggregate:
    input:
        plan=ancient(rules.plan.output.plan),
        validation=rules.validate.output.validation,
    output:
        attempts=f"{ROOT}/tables/attempts.parquet",
        samples=f"{ROOT}/tables/samples.parquet",
        records=f"{ROOT}/tables/records.parquet",
    log:
        f"{ROOT}/logs/aggregate.log",
    benchmark:
        f"{ROOT}/benchmarks/aggregate.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "aggregate samples and records to Parquet"
    shell:
        'exec python workflow/scripts/aggregate.py --results "$(dirname {input.plan:q})" 2> {log:q}'
