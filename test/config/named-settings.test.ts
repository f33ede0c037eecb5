import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { configJsonSchema, profileJsonSchema } from '../support/json-schemas.ts';
import { schemaFields } from '../support/schema-fields.ts';

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url));
const TEXT = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g;
/** A setting as a sentence names it: its section and its name. */
const SETTING =
  /\b(?:http|page|auth|oauth|outcomes|rate|webhook|webhooks|serve|schedule|deletes|incremental|log)\.[a-z][a-z_]*\b/g;

/** Every setting that a sentence of the program names, with the file that it stands in. */
function namedSettings(): { name: string; file: string }[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  return files.flatMap((file) => {
    const texts = readFileSync(path.join(SOURCES, file), 'utf8').match(TEXT) ?? [];
    const sentences = texts.map((text) => text.replaceAll(/\$\{[^}]*\}/g, '…')).filter((text) => / [a-z]/.test(text));
    return sentences.flatMap((text) => (text.match(SETTING) ?? []).map((name) => ({ name, file })));
  });
}

describe('the sentences of the program', () => {
  it('name no setting that does not exist', () => {
    const fields = [configJsonSchema(), profileJsonSchema()].flatMap((schema) =>
      Array.from(schemaFields(schema).keys()),
    );
    const known = (name: string): boolean => fields.some((field) => field === name || field.endsWith(`.${name}`));
    const named = namedSettings();
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter(({ name }) => !known(name))).toEqual([]);
  });
});
