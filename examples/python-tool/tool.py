"""Summarizes numbers: their mean, median and spread"""

from outliers import without_outliers
from statistics import mean, median, pstdev

input_schema = {
    "type": "object",
    "properties": {
        "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "ignore_outliers": {"type": "boolean"},
    },
    "required": ["numbers"],
}


async def main(input, ctx):
    numbers = input["numbers"]
    if input.get("ignore_outliers"):
        numbers = without_outliers(numbers)
        print(f"{len(input['numbers']) - len(numbers)} outliers ignored")
    runs = (await ctx.kv.get("runs") or 0) + 1
    await ctx.kv.set("runs", runs)
    if len(numbers) < 2:
        raise ValueError("at least two numbers are needed for a spread")
    return {"mean": mean(numbers), "median": median(numbers), "spread": round(pstdev(numbers), 3), "runs": runs}
