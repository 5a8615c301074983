# EP Campaign: from a campaign file to a verdict that survives review.
#
#   config/campaigns/<campaign>.yaml
#     plan       results/<campaign>/plan.json
#     admit      results/<campaign>/admission/ep<N>.json
#     measure    results/<campaign>/starts/ep<N>/<profile>/round-<RR>/<arm>/outcome-<K>.json     one job per start
#     profile    results/<campaign>/kernel-times/ep<N>.json            only where the campaign asks for it
#     validate   results/<campaign>/validation.json
#     aggregate  results/<campaign>/tables/{attempts,samples,records}.parquet
#     analyse    results/<campaign>/tables/{cells,contrasts}.parquet, statistics.json
#     plots      results/<campaign>/figures/*
#     report     results/<campaign>/{RESULTS.md,report.html,pr.md}
#     complete   results/<campaign>/SHA256SUMS, CAMPAIGN_COMPLETE
#
# That is a comparison. An elastic campaign has the same stages but admission, starts/w<width>/<state>/round-<RR>/<arm>, and
# tables of its own: workflow/rules/elastic.smk.
#
# snakemake                                   run the default campaign, or what is left of it
# snakemake -n                                preview its matrix
# snakemake --config campaign=NAME            another campaign
# snakemake -R validate --config summary=only the summary again, measuring nothing
from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/plan.smk"
include: f"workflow/rules/{PIPELINE.plan.kind}.smk"
include: "workflow/rules/complete.smk"


# Everything but measuring and admitting runs where Snakemake runs, whatever the executor.
localrules:
    all,
    plan,
    validate,
    aggregate,
    analyse,
    plots,
    report,
    complete,


rule all:
    default_target: True
    input:
        # Outcomes stand here too: one that is gone, or a start that is a target again, is measured whatever lies downstream.
        PIPELINE.outcomes,
        rules.complete.output,
        validation=rules.validate.output.validation,
