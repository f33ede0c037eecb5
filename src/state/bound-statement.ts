import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables } from '../warehouse/own-tables.ts';

/** Stands for a value of the row while its statement is compiled. */
class Place {
  readonly field: string;

  constructor(field: string) {
    this.field = field;
  }
}

/**
 * Returns what binds a row to a statement that is compiled once per database and set of fields: to compile it costs as
 * much as to run it, and each page has several. `compile` takes the row's values as they are, as bound values, and its
 * text may not depend on them.
 */
export function boundStatement<Row extends object>(
  compile: (own: Kysely<OwnTables>, row: Row) => CompiledQuery,
): (own: Kysely<OwnTables>, row: Row) => CompiledQuery {
  const byDatabase = new WeakMap<Kysely<OwnTables>, Map<string, CompiledQuery>>();
  return (own, row) => {
    const fields = Object.keys(row).filter((field) => valueOf(row, field) !== undefined);
    const known = byDatabase.get(own) ?? new Map<string, CompiledQuery>();
    byDatabase.set(own, known);
    const name = fields.join(' ');
    // It is only compiled, which looks at no value.
    // oxlint-disable-next-line no-unsafe-type-assertion
    const places = (): Row => Object.fromEntries(fields.map((field) => [field, new Place(field)])) as Row;
    const compiled = known.get(name) ?? compile(own, places());
    known.set(name, compiled);
    const parameters = compiled.parameters.map((value) => (value instanceof Place ? valueOf(row, value.field) : value));
    return { ...compiled, parameters };
  };
}

function valueOf(row: object, field: string): unknown {
  return Reflect.get(row, field);
}
