interface Schema {
  default?: unknown;
  properties?: Record<string, unknown>;
  additionalProperties?: unknown;
  items?: unknown;
  anyOf?: unknown[];
  oneOf?: unknown[];
}

/**
 * Every field of a JSON Schema by its path, as the README writes it (`resources.<name>.page.size`, `outcomes[].status`),
 * with its default as text; undefined where it has none, or null.
 */
export function schemaFields(schema: object): Map<string, string | undefined> {
  const fields = new Map<string, string | undefined>();
  const visit = (part: unknown, path: string): void => {
    if (!isSchema(part)) return;
    for (const [name, field] of Object.entries(part.properties ?? {})) {
      const at = path === '' ? name : `${path}.${name}`;
      fields.set(at, fields.get(at) ?? defaultOf(field));
      visit(field, at);
    }
    for (const branch of [...(part.anyOf ?? []), ...(part.oneOf ?? [])]) visit(branch, path);
    visit(part.items, `${path}[]`);
    // A map with names of the user's own; a map of texts has no fields.
    visit(part.additionalProperties, `${path}.<name>`);
  };
  visit(schema, '');
  return fields;
}

function isSchema(part: unknown): part is Schema {
  return typeof part === 'object' && part !== null;
}

function defaultOf(field: unknown): string | undefined {
  if (!isSchema(field) || field.default === undefined || field.default === null) return undefined;
  return typeof field.default === 'string' ? field.default : JSON.stringify(field.default);
}
