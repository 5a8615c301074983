# The stages of an elastic campaign, in pipeline order.
include: "elastic/measure.smk"
include: "elastic/validate.smk"
include: "elastic/aggregate.smk"
include: "elastic/analyse.smk"
include: "elastic/plots.smk"
include: "elastic/report.smk"
