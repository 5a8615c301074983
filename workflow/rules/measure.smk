# One job per start. It succeeds whenever it has written a truthful record, also of a failure, so that one failed start never
# starves the summary. Admission is ancient(), and with it the plan: a results folder holds one plan, and a copy of it with newer
# dates measures nothing again.
rule measure:
    input:
        admission=ancient(rules.admit.output.admission),
    output:
        outcome=f"{ROOT}/starts/ep{{ep}}/{{slot}}/outcome-{{attempt}}.json",
    log:
        f"{ROOT}/logs/starts/ep{{ep}}/{{slot}}-{{attempt}}.log",
    priority: lambda wildcards: PIPELINE.priority(f"ep{wildcards.ep}/{wildcards.slot}")
    resources:
        node_set=1,
        # What a batch system is asked for; elsewhere they mean nothing. `place` is a profile's to set.
        nodes=lambda wildcards: PIPELINE.num_nodes(int(wildcards.ep)),
        tasks=lambda wildcards: int(wildcards.ep),
        place="local",
    message:
        "measure ep{wildcards.ep}/{wildcards.slot}"
    shell:
        # exec: the kernel kills a job with its parent only where no shell stands between them.
        "exec python workflow/scripts/measure.py --outcome {output.outcome:q} --place {resources.place:q} 2> {log:q}"
