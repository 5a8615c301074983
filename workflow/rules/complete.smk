# Last: checksums over everything that is evidence, then the mark that nothing is missing (or PARTIAL, with what is).
rule complete:
    input:
        plan=ancient(rules.plan.output.plan),
        reports=rules.report.output,
        analysis=rules.analyse.output,
        tables=rules.aggregate.output,
    output:
        # Whether CAMPAIGN_COMPLETE or PARTIAL is written is known when the folder is validated; a mark that is lost is known now.
        PIPELINE.lost_mark,
        checksums=f"{ROOT}/SHA256SUMS",
    log:
        f"{ROOT}/logs/complete.log",
    params:
        code=PIPELINE.analysis_digest,
    message:
        "complete: checksums and mark"
    shell:
        'exec python workflow/scripts/complete.py --results "$(dirname {input.plan:q})" 2> {log:q}'
