import { z } from 'zod';
import { fieldPathText, isEach, keysOfPath, parseBodyPath } from '../model/body-path.ts';

const FORM =
  'expected a path such as meta.next, items[0], items[-1] or "a.b".c (a key with a dot or a bracket is quoted)';

/** A path in a JSON body: keys joined by dots (`meta.next`), `[0]`, `"a.b"`; the empty string for the body itself. */
export const bodyPath = z.string().refine((text) => parseBodyPath(text)?.some(isEach) === false, FORM);

/** The same, and `[*]` or `*` for each element of an array or each value of a map. */
export const recordsPath = z
  .string()
  .refine((text) => parseBodyPath(text) !== null, `${FORM}, with [*] for each element and * for each value of a map`);

/** A path from a record to one of its fields, through objects alone. */
export const fieldPath = z
  .string()
  .min(1)
  .refine(
    (text) => parseBodyPath(text) !== null && keysOfPath(text) !== null,
    'expected a field such as author.id; a key with a dot or a bracket is quoted: "a.b".id',
  );

/** A field of the tables, as the catalogue of columns writes its path. */
export const columnPath = z.string().min(1).transform(fieldPathText);
