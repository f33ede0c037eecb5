const NAME = /^[a-z_][a-z0-9_]*$/;
/** Bytes of an identifier; more are cut off without a word. */
const LONGEST = 63;
/** Postgres's own, and those that all processes of content-sync share. */
const TAKEN = /^(?:pg_.*|information_schema|content_sync.*)$/;
const PLACEHOLDER = '{source}';

/** Why the schema of an address cannot be used, as `expected …`; null where it can, and where none is named. */
export function schemaFault(template: string | null): string | null {
  if (template === null) return null;
  const name = template.replaceAll(PLACEHOLDER, 'a');
  if (!NAME.test(name)) return 'expected a schema of lower-case letters, digits, _ and {source}';
  return TAKEN.test(name) ? 'expected a schema other than those of Postgres and of content-sync itself' : null;
}

/** The schema of a source: by default its own name, as SQL writes it without quotes. */
export function schemaOf(template: string | null, source: string): string {
  return (template ?? PLACEHOLDER).replaceAll(PLACEHOLDER, source.replaceAll('-', '_'));
}

/** Why a source cannot have the schema that its name leads to; `all` are the names of all sources. */
export function sourceSchemaFault(template: string | null, source: string, all: readonly string[]): string | null {
  const schema = schemaOf(template, source);
  // Only who writes it down means it.
  const isTaken = TAKEN.test(schema) || (schema === 'public' && template !== 'public');
  if (isTaken) return `expected another name, because the schema ${schema} is not for sources`;
  if (schema.length > LONGEST) return `expected a shorter name, because a schema has at most ${LONGEST} characters`;
  const other = all.find((name) => name !== source && schemaOf(template, name) === schema);
  return other === undefined ? null : `expected another name, because ${other} has the schema ${schema} too`;
}
