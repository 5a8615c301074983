# A comparison of builds has the stages of any comparison.
include: "comparison.smk"
