/** A parsed record, as plain JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface CopiedColumn {
  name: string;
  /** From the record to the value; `[]` stands for "each element". */
  path: readonly string[];
  /** Both sides in one form, so that they can be compared as text. */
  fromSource: (value: Json) => unknown;
  read: (cell: unknown) => unknown;
}

/** A table of the warehouse, as its catalogue describes it. */
export interface CopiedTable {
  name: string;
  path: readonly string[];
  keys: readonly string[];
  columns: readonly CopiedColumn[];
}

/** How a value of the service and a cell of a type are made comparable; what is not named is compared as it is. */
const FORMS: Readonly<Record<string, Pick<CopiedColumn, 'fromSource' | 'read'>>> = {
  boolean: { fromSource: (value) => (value === true ? 1 : value === false ? 0 : null), read: asIs },
  timestamp: { fromSource: instant, read: instant },
  text: { fromSource: (value) => (value === null || typeof value === 'object' ? null : String(value)), read: asIs },
  json: {
    fromSource: (value) => (value === null ? null : canonicalJson(value)),
    read: (cell) => (typeof cell === 'string' ? canonicalJson(JSON.parse(cell)) : null),
  },
  numeric: { fromSource: asNumber, read: asNumber },
};

export function copiedColumn(name: string, path: readonly string[], type: string): CopiedColumn {
  return { name, path, ...(FORMS[type] ?? { fromSource: plain, read: asIs }) };
}

/** The elements that become rows of the table at `path`, each with its positions; the record itself for no path. */
export function placesIn(
  value: Json,
  path: readonly string[],
  positions: number[] = [],
): { value: Json; positions: number[] }[] {
  const [part, ...rest] = path;
  if (part === undefined) return [{ value, positions }];
  if (part === '[]') {
    return Array.isArray(value) ? value.flatMap((each, at) => placesIn(each, rest, [...positions, at])) : [];
  }
  return placesIn(fieldOf(value, part), rest, positions);
}

/** The row's cells, without its key, as one comparable text. */
export function expectedRow(table: CopiedTable, element: Json): string {
  const depth = table.path.length;
  const cells = table.columns.map(({ path, fromSource }) => {
    let value = element;
    for (let at = depth; at < path.length; at += 1) value = fieldOf(value, path[at] ?? '');
    return value === null ? null : fromSource(value);
  });
  return JSON.stringify(cells);
}

/** The same text for the same value, whatever the order of its keys. */
export function canonicalJson(value: Json): string {
  return JSON.stringify(value, (_key, each: Json) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}

function fieldOf(value: Json, key: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  return Object.hasOwn(value, key) ? (value[key] ?? null) : null;
}

function instant(value: unknown): number | null {
  if (typeof value !== 'string') return null;
  const text = value.replace(' ', 'T');
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) || !text.includes('T') ? text : `${text}Z`);
}

function asNumber(value: unknown): number | null {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : null;
}

function plain(value: Json): unknown {
  return typeof value === 'object' ? null : value;
}

function asIs(cell: unknown): unknown {
  return cell;
}
