# One job per start: a serving sweep or a live resize. It succeeds whenever it has written a truthful record, also of a failure.
# It runs where Snakemake runs, whatever the executor: the target is where its driver finds it, and never a gang of pods.
rule measure:
    input:
        plan=ancient(rules.plan.output.plan),
    output:
        outcome=f"{ROOT}/starts/w{{width}}/{{slot}}/outcome-{{attempt}}.json",
    log:
        f"{ROOT}/logs/starts/w{{width}}/{{slot}}-{{attempt}}.log",
    wildcard_constraints:
        width=r"\d+",
    priority: lambda wildcards: PIPELINE.priority(f"w{wildcards.width}/{wildcards.slot}")
    localrule: True
    resources:
        node_set=1,
    message:
        "measure w{wildcards.width}/{wildcards.slot}"
    shell:
        "exec python workflow/scripts/elastic/measure.py --outcome {output.outcome} 2> {log}"
