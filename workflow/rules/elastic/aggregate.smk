rule aggregate:
    input:
        plan=ancient(rules.plan.output.plan),
        validation=rules.validate.output.validation,
    output:
        attempts=f"{ROOT}/tables/elastic_attempts.parquet",
        requests=f"{ROOT}/tables/requests.parquet",
        chunks=f"{ROOT}/tables/chunks.parquet",
        passes=f"{ROOT}/tables/passes.parquet",
        resizes=f"{ROOT}/tables/resizes.parquet",
    log:
        f"{ROOT}/logs/aggregate.log",
    benchmark:
        f"{ROOT}/benchmarks/aggregate.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "aggregate requests, chunks, passes and resizes to Parquet"
    shell:
        "exec python workflow/scripts/elastic/aggregate.py --results $(dirname {input.plan}) 2> {log}"
