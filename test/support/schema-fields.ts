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
const NO_FIELD: SchemaField = { preset: OPTIONAL, description: '', example: OPTIONAL };

/** Every field of a JSON Schema by its path, as the README writes it (`resources.<name>.page.size`, `outcomes[].status`). */
export function schemaFields(schema: object): Map<string, SchemaField> {
  const found: Found = { fields: new Map(), kinds: new Map() };
  const visit = (part: unknown, path: string): void => {
    if (!isSchema(part)) return;
    found.kinds.set(path, [...(found.kinds.get(path) ?? []), ...kindsOf(part)]);
    for (const [name, field] of Object.entries(part.properties ?? {})) {
      const at = path === '' ? name : `${path}.${name}`;
      found.fields.set(at, [
        ...(found.fields.get(at) ?? []),
        { ...fieldOf(part, name), kinds: kindsOf(part), name, path },
      ]);
      visit(field, at);
    }
    for (const branch of [...(part.anyOf ?? []), ...(part.oneOf ?? [])]) visit(branch, path);
    visit(part.items, `${path}[]`);
    // A map with names of the user's own; a map of texts has no fields.
    visit(part.additionalProperties, `${path}.<name>`);
  };
  visit(schema, '');
  return new Map(Array.from(found.fields, ([at, forms]) => [at, oneField(forms, found.kinds)]));
}

/** A field as one branch of a union has it. */
interface Form extends SchemaField {
  /** The words by which that branch is known. */
  kinds: string[];
  name: string;
  /** Of what has the field. */
  path: string;
}

interface Found {
  fields: Map<string, Form[]>;
  /** All words by which branches are known, by the path of the union. */
  kinds: Map<string, string[]>;
}

/** What several branches say of a field, each with its kinds unless all are meant. */
function oneField(forms: readonly Form[], kinds: Found['kinds']): SchemaField {
  const { preset, example } = forms.reduce<SchemaField>((before, form) => merged(before, form), NO_FIELD);
  const abouts = Map.groupBy(forms, ({ description }) => description);
  if (abouts.size > 1) abouts.delete('');
  const texts = Array.from(abouts, ([description, same]) => kindsText(same, kinds) + asPhrase(description));
  const examples = new Set(Array.from(abouts.values(), ([form]) => form?.example ?? OPTIONAL));
  examples.delete(OPTIONAL);
  return { preset, description: texts.join('. '), example: [...examples].join(' or ') || example };
}

const KIND_FIELDS = ['type', 'style', 'mode'];

/** The kinds that have a field, as a beginning of a sentence; '' if all have it, or if it is what tells them apart. */
function kindsText(forms: readonly Form[], kinds: Found['kinds']): string {
  const own = new Set(forms.flatMap((form) => form.kinds));
  const all = new Set(forms.flatMap(({ path }) => kinds.get(path) ?? []));
  const others = [...all.difference(own)];
  if (forms.some(({ name }) => KIND_FIELDS.includes(name)) || others.length === 0) return '';
  const [before, named] = own.size > others.length + 1 && own.size > 3 ? ['all but ', others] : ['', [...own]];
  return `${before}${named.map((kind) => `\`${kind}\``).join(', ')}: `;
}

/** A description as a cell has it: no capital and no full stop. */
function asPhrase(text: string): string {
  const isName = /^(?:Authorization|Basic|Bearer|OAuth|Unix)\b/.test(text);
  const first = !isName && /^[A-Z](?:[a-z]|\s)/.test(text) ? text.charAt(0).toLowerCase() : text.charAt(0);
  return `${first}${text.slice(1)}`.replace(/\.$/, '');
}

/** The words by which a branch of a union is known. */
function kindsOf({ properties = {} }: Schema): string[] {
  const words = KIND_FIELDS.map((name) => properties[name]).find(isSchema);
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
function merged(before: SchemaField, field: SchemaField): SchemaField {
  if (before === NO_FIELD) return field;
  const isRequired = before.preset.startsWith(REQUIRED) && field.preset.startsWith(REQUIRED);
  const first = before.preset === OPTIONAL ? field.preset : before.preset;
  const preset = isRequired && before.preset !== field.preset ? REQUIRED : first;
  return { ...before, preset, example: before.example === OPTIONAL ? field.example : before.example };
}
