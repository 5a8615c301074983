# Is the place fit to measure, and does every arm work in it? Once for each EP size, before its first start.
rule admit:
    input:
        plan=ancient(rules.plan.output.plan),
    output:
        admission=f"{ROOT}/admission/ep{{ep}}.json",
    log:
        f"{ROOT}/logs/admit-ep{{ep}}.log",
    priority: len(PIPELINE.plan.starts) + 1
    resources:
        node_set=1,
        nodes=lambda wildcards: PIPELINE.num_nodes(int(wildcards.ep)),
        tasks=lambda wildcards: int(wildcards.ep),
        place="local",
    message:
        "admit EP {wildcards.ep}: host checks, one brief run of each arm"
    shell:
        'exec python workflow/scripts/admit.py --results "$(dirname {input.plan:q})" --ep-size {wildcards.ep} --place {resources.place:q} 2> {log:q}'
