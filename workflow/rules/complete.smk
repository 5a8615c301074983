# Last: checksums over everything that is evidence, then the mark that nothing is missing (or PARTIAL, with what is).
rule complete:
    input:
        rules.report.output,
        rules.analyse.output,
        rules.aggregate.output,
    output:
        checksums=f"{ROOT}/SHA256SUMS",
    log:
        f"{ROOT}/logs/complete.log",
    params:
        root=ROOT,
        code=PIPELINE.analysis_digest,
    message:
        "complete: checksums and mark"
    shell:
        "exec python workflow/scripts/complete.py --results {params.root} 2> {log}"
