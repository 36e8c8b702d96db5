"""How sure a mean is, from few values."""

import math

# Student's t for 95 %, two-sided, by degrees of freedom from 1 on; then as good as that of the last.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip


def interval(values):
    """Low end, mean and high end of the 95 % confidence interval of the mean; two values or more."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = T_95[min(len(values) - 2, len(T_95) - 1)] * math.sqrt(variance / len(values))
    return mean - half, mean, mean + half
