# The stages of a comparison, in pipeline order.
include: "admit.smk"
include: "measure.smk"
include: "profile.smk"
include: "validate.smk"
include: "aggregate.smk"
include: "analyse.smk"
include: "plots.smk"
include: "report.smk"
