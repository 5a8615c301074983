"""Pure statistics: functions of numbers, without files, tables, clocks or hidden random state.

The replicate is the process start, never the iteration. A contrast is made within rounds on log ratios, with the sign
convention of `contrast`: ratio = arm / reference, so below 1 the arm is faster. Every interval carries its true level,
which is rarely the nominal one, and every p-value says whether it is exact. What cannot be computed is `None` with a
warning that says what is missing; a failing statistic is never a claim.
"""
