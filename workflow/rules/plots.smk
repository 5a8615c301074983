from ep_campaign.figures import figure_names


rule plots:
    input:
        plan=ancient(rules.plan.output.plan),
        statistics=rules.analyse.output.statistics,
    output:
        svg=report(
            expand(f"{ROOT}/figures/{{name}}.svg", name=figure_names(PIPELINE.plan)),
            caption="../report/figure.rst",
            category="Figures",
        ),
        png=expand(f"{ROOT}/figures/{{name}}.png", name=figure_names(PIPELINE.plan)),
    log:
        f"{ROOT}/logs/plots.log",
    benchmark:
        f"{ROOT}/benchmarks/plots.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "plot starts, intervals, ratios and diagnostics"
    shell:
        'exec python workflow/scripts/plots.py --results "$(dirname {input.plan:q})" 2> {log:q}'
