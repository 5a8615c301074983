from ep_campaign.elastic.figures import elastic_figure_names


rule plots:
    input:
        plan=ancient(rules.plan.output.plan),
        statistics=rules.analyse.output.statistics,
        tables=rules.aggregate.output,
    output:
        svg=report(
            expand(
                f"{ROOT}/figures/{{name}}.svg",
                name=elastic_figure_names(PIPELINE.plan),
            ),
            caption="../../report/figure.rst",
            category="Figures",
        ),
        png=expand(
            f"{ROOT}/figures/{{name}}.png", name=elastic_figure_names(PIPELINE.plan)
        ),
    log:
        f"{ROOT}/logs/plots.log",
    benchmark:
        f"{ROOT}/benchmarks/plots.jsonl"
    params:
        code=PIPELINE.analysis_digest,
    message:
        "plot loads by width, and every resize"
    shell:
        "exec python workflow/scripts/elastic/plots.py --results $(dirname {input.plan}) 2> {log}"
