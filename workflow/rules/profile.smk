# Kernel times by the profiler, where the plan asks for them: one launch of each arm and profile, after the scored starts. Outcomes are
# ancient(): a start that is measured again profiles nothing again.
rule profile:
    input:
        lambda wildcards: ancient(PIPELINE.outcomes_of(int(wildcards.ep))),
        plan=ancient(rules.plan.output.plan),
    output:
        kernel_times=f"{ROOT}/kernel-times/ep{{ep}}.json",
    log:
        f"{ROOT}/logs/profile-ep{{ep}}.log",
    resources:
        node_set=1,
        nodes=lambda wildcards: PIPELINE.num_nodes(int(wildcards.ep)),
        tasks=lambda wildcards: int(wildcards.ep),
        place="local",
    message:
        "profile EP {wildcards.ep}: kernel times of each arm, in launches of their own"
    shell:
        'exec python workflow/scripts/profile_arms.py --results "$(dirname {input.plan:q})" --ep-size {wildcards.ep} --place {resources.place:q} 2> {log:q}'
