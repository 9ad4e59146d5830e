from statistics import quantiles


def without_outliers(numbers):
    """Drops what is further than 1.5 interquartile ranges outside of the middle half."""
    if len(numbers) < 4:
        return numbers
    low, _, high = quantiles(numbers, n=4)
    margin = 1.5 * (high - low)
    return [number for number in numbers if low - margin <= number <= high + margin]
