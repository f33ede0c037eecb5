import { z } from 'zod';
import type { FieldPath } from './fault.ts';
import { closestWord } from './closest-word.ts';
import { isPlainMap, partAt } from './field-path.ts';

type JsonSchema = z.core.JSONSchema.JSONSchema;

/** The keys that the schema knows in the map at `path`; of a union, those of the branch that the value chose. */
export function knownKeys(schema: z.ZodType, value: unknown, path: FieldPath): string[] {
  let at: unknown = value;
  let branches: JsonSchema[] = branchesOf(z.toJSONSchema(schema, { io: 'input' }), at);
  for (const part of path) {
    at = partAt(at, part);
    branches = branches.flatMap((branch) => below(branch, part)).flatMap((branch) => branchesOf(branch, at));
  }
  return [...new Set(branches.flatMap((branch) => Object.keys(branch.properties ?? {})))];
}

/** `; did you mean "share"?`, or the list of what would have been right. */
export function suggestion(word: string, known: readonly string[]): string {
  const near = closestWord(word, known);
  return near === undefined ? '' : `; did you mean "${near}"?`;
}

function below(schema: JsonSchema, part: FieldPath[number]): JsonSchema[] {
  const next = schema.properties?.[part] ?? (typeof part === 'number' ? schema.items : schema.additionalProperties);
  return typeof next === 'object' && !Array.isArray(next) ? [next] : [];
}

function branchesOf(schema: JsonSchema, value: unknown): JsonSchema[] {
  const branches = (schema.oneOf ?? schema.anyOf)?.filter((branch): branch is JsonSchema => typeof branch === 'object');
  if (branches === undefined) return [schema];
  const chosen = branches.filter((branch) => constantsHold(branch, value));
  return (chosen.length > 0 ? chosen : branches).flatMap((branch) => branchesOf(branch, value));
}

/** Whether the value has the constants (`type: api_key`) by which this branch is told from the others. */
function constantsHold(branch: JsonSchema, value: unknown): boolean {
  const constants = Object.entries(branch.properties ?? {}).flatMap(([key, property]) =>
    typeof property === 'object' && property.const !== undefined ? [[key, property.const] as const] : [],
  );
  return isPlainMap(value) && constants.every(([key, constant]) => value[key] === constant);
}
