rule plan:
    output:
        plan=f"{ROOT}/plan.json",
    log:
        f"{ROOT}/logs/plan.log",
    params:
        campaign=PIPELINE.plan.name,
    message:
        f"plan {PIPELINE.plan.name}: {len(PIPELINE.plan.starts)} starts, digest {PIPELINE.plan.digest[:16]}"
    shell:
        'exec python workflow/scripts/plan.py --campaign {params.campaign:q} --results "$(dirname {output.plan:q})" 2> {log:q}'
