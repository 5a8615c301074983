# One job per start. It succeeds whenever it has written a truthful record, also of a failure, so that one failed start never
# starves the summary. The plan is ancient(): a results folder holds one plan, and a copy with a newer date measures nothing again.
rule measure:
    input:
        plan=ancient(rules.plan.output.plan),
        admission=ancient(rules.admit.output.admission),
    output:
        outcome=f"{ROOT}/starts/ep{{ep}}/{{profile}}/round-{{round}}/{{arm}}/outcome-{{attempt}}.json",
    log:
        f"{ROOT}/logs/starts/ep{{ep}}/{{profile}}/round-{{round}}/{{arm}}-{{attempt}}.log",
    priority: lambda wildcards: PIPELINE.priority(start_id(wildcards))
    resources:
        node_set=1,
    params:
        start=start_id,
    message:
        "measure {params.start}"
    shell:
        # exec: the kernel kills a job with its parent only where no shell stands between them.
        "exec python workflow/scripts/measure.py --results $(dirname {input.plan}) --start {params.start}"
        " --first-attempt {wildcards.attempt} 2> {log}"
