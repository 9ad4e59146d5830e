export const description = "Adds two numbers";

export default ({ a, b }: { readonly a: number; readonly b: number }): { readonly sum: number } => ({ sum: a + b });
