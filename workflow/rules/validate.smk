rule validate:
    input:
        # Unnamed: Snakemake hashes a named list of n files once for each of them.
        PIPELINE.outcomes,
        PIPELINE.kernel_times,
        plan=ancient(rules.plan.output.plan),
    output:
        validation=f"{ROOT}/validation.json",
    log:
        f"{ROOT}/logs/validate.log",
    benchmark:
        f"{ROOT}/benchmarks/validate.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        f"validate {len(PIPELINE.outcomes)} starts"
    shell:
        'exec python workflow/scripts/validate.py --results "$(dirname {input.plan:q})" 2> {log:q}'
