import { stringify } from 'yaml';

interface Schema {
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  description?: string;
  examples?: unknown[];
  required?: string[];
  properties?: Record<string, unknown>;
  additionalProperties?: unknown;
  items?: unknown;
  anyOf?: unknown[];
  oneOf?: unknown[];
}

export interface SchemaField {
  /** The default as Markdown; else whether the field is required, and for which branch of a union; else `–`. */
  preset: string;
  /** What the schema says of it, behind the kinds that alone have it; '' if it says nothing. */
  description: string;
  /** An example of the schema, as YAML on one line; else `–`. */
  example: string;
}

const OPTIONAL = '–';
const REQUIRED = 'required';

/** Every field of a JSON Schema by its path, as the README writes it (`resources.<name>.page.size`, `outcomes[].status`). */
export function schemaFields(schema: object): Map<string, SchemaField> {
  const fields = new Map<string, SchemaField>();
  const kinds = new Map<string, Set<string>>();
  const kindsWith = new Map<string, Set<string>>();
  const visit = (part: unknown, path: string): void => {
    if (!isSchema(part)) return;
    addAll(kinds, path, kindsOf(part));
    for (const [name, field] of Object.entries(part.properties ?? {})) {
      const at = path === '' ? name : `${path}.${name}`;
      addAll(kindsWith, at, kindsOf(part));
      fields.set(at, merged(fields.get(at), fieldOf(part, name)));
      visit(field, at);
    }
    for (const branch of [...(part.anyOf ?? []), ...(part.oneOf ?? [])]) visit(branch, path);
    visit(part.items, `${path}[]`);
    // A map with names of the user's own; a map of texts has no fields.
    visit(part.additionalProperties, `${path}.<name>`);
  };
  visit(schema, '');
  return withKinds(fields, kinds, kindsWith);
}

function addAll(sets: Map<string, Set<string>>, at: string, words: readonly string[]): void {
  sets.set(at, (sets.get(at) ?? new Set()).union(new Set(words)));
}

type Kinds = ReadonlyMap<string, ReadonlySet<string>>;

/** Names the kinds of a union (`kinds`, by its path) that have a field (`kindsWith`), unless all of them do. */
function withKinds(fields: Map<string, SchemaField>, kinds: Kinds, kindsWith: Kinds): Map<string, SchemaField> {
  return new Map(
    Array.from(fields, ([at, field]): [string, SchemaField] => {
      const own = kindsWith.get(at) ?? new Set();
      const all = kinds.get(at.slice(0, Math.max(0, at.lastIndexOf('.')))) ?? new Set();
      if (field.description === '' || own.size === 0 || own.size === all.size) return [at, field];
      const named = [...own].map((kind) => `\`${kind}\``).join(', ');
      return [at, { ...field, description: `${named}: ${field.description}` }];
    }),
  );
}

/** The words by which a branch of a union is known. */
function kindsOf({ properties = {} }: Schema): string[] {
  const words = ['type', 'style', 'mode'].map((name) => properties[name]).find(isSchema);
  const known = words?.const === undefined ? (words?.enum ?? []) : [words.const];
  return known.filter((word) => typeof word === 'string');
}

function isSchema(part: unknown): part is Schema {
  return typeof part === 'object' && part !== null;
}

function fieldOf(parent: Schema, name: string): SchemaField {
  const field = parent.properties?.[name];
  const { description = '', examples = [] } = isSchema(field) ? field : {};
  const about = { description, example: exampleText(examples) };
  const preset = isSchema(field) ? field.default : undefined;
  if (preset === '') return { preset: "`''`", ...about };
  if (preset !== undefined && preset !== null) {
    return { preset: `\`${typeof preset === 'string' ? preset : JSON.stringify(preset)}\``, ...about };
  }
  return { preset: parent.required?.includes(name) === true ? requiredIn(parent) : OPTIONAL, ...about };
}

/** In code, so that nothing of it is Markdown; a bar would end the cell. */
function exampleText([example]: readonly unknown[]): string {
  if (example === undefined) return OPTIONAL;
  const text = typeof example === 'string' ? example : stringify(example, { collectionStyle: 'flow', lineWidth: 0 });
  return `\`${text.trimEnd().replaceAll('|', '\\|') || "''"}\``;
}

/** A branch of a union is known by the one word that its `type` or `style` must have. */
function requiredIn({ properties = {} }: Schema): string {
  const word = Object.values(properties).find((field) => isSchema(field) && typeof field.const === 'string');
  return isSchema(word) ? `${REQUIRED} for \`${String(word.const)}\`` : REQUIRED;
}

/** A field of several branches: required if each of them requires it. */
function merged(before: SchemaField | undefined, field: SchemaField): SchemaField {
  if (before === undefined || before.preset === field.preset) return before ?? field;
  const isRequired = before.preset.startsWith(REQUIRED) && field.preset.startsWith(REQUIRED);
  const preset = isRequired ? REQUIRED : before.preset === OPTIONAL ? field.preset : before.preset;
  const description = before.description === '' ? field.description : before.description;
  return { preset, description, example: before.example === OPTIONAL ? field.example : before.example };
}
