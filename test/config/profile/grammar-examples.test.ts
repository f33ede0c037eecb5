import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { profileFields } from '../../support/generated-tables.ts';

interface Entry {
  /** As the README writes it: `resources.<name>.page.style`. */
  field: string;
  schema: z.core.$ZodType;
  examples: readonly unknown[];
}

/** The schemas below another one, with what they add to its path. */
function below(schema: z.core.$ZodType): [string, z.core.$ZodType][] {
  if (schema instanceof z.ZodObject) return Object.entries(schema.shape).map(([key, part]) => [`.${key}`, part]);
  if (schema instanceof z.ZodRecord) return [['.<name>', schema.valueType]];
  if (schema instanceof z.ZodArray) return [['[]', schema.element]];
  if (schema instanceof z.ZodUnion) return schema.options.map((part): [string, z.core.$ZodType] => ['', part]);
  if (schema instanceof z.ZodPipe) return [['', schema.in]];
  return schema instanceof z.ZodType && isWrapper(schema) ? [['', schema.unwrap()]] : [];
}

/** Optional, nullable, with a default. */
function isWrapper(schema: z.ZodType): schema is z.ZodType & { unwrap(): z.core.$ZodType } {
  return 'unwrap' in schema && !(schema instanceof z.ZodLazy);
}

function entriesOf(schema: z.core.$ZodType, field: string, met: Set<z.core.$ZodType>): Entry[] {
  if (met.has(schema)) return [];
  met.add(schema);
  const { examples = [] } = z.globalRegistry.get(schema) ?? {};
  const own = Array.isArray(examples) && examples.length > 0 ? [{ field, schema, examples }] : [];
  return [...own, ...below(schema).flatMap(([step, part]) => entriesOf(part, `${field}${step}`, met))];
}

describe('an example in the reference of the profile', () => {
  const entries = entriesOf(profileSchema, '', new Set());

  it.for(entries)('is what $field takes', ({ schema, examples }) => {
    for (const example of examples) {
      const { error } = z.safeParse(schema, example);
      expect(error?.issues ?? []).toEqual([]);
    }
  });

  it('stands beside every field', () => {
    const fields = profileFields();
    const names = [...fields.keys()];
    const holdsOthers = (name: string): boolean =>
      names.some((other) => /^[.[]/.test(other.slice(name.length)) && other.startsWith(name));
    const bare = names.filter((name) => fields.get(name)?.example === '–' && !holdsOthers(name));
    expect(bare.filter((name) => !WITHOUT_EXAMPLE.test(name))).toEqual([]);
  });
});

/** Dialects, of which most are taken by name. */
const WITHOUT_EXAMPLE = /^(about|webhooks\.signature|rate_limit)\b/;
