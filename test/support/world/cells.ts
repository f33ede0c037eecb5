import type { ColumnType } from '../../../src/model/vocabulary.ts';
import { decimal } from '../copied-cells.ts';
import {
  canonical,
  canonicalStored,
  Digits,
  isFields,
  isList,
  parsed,
  storable,
  written,
  type Value,
} from './json-value.ts';

type Agrees = (value: Exclude<Value, null>, cell: unknown) => boolean;

/** Whether a cell of a type holds a value of the service, to the last digit. */
const AGREES: Readonly<Record<ColumnType, Agrees>> = {
  boolean: (value, cell) => typeof value === 'boolean' && Number(cell) === Number(value),
  integer: (value, cell) => value instanceof Digits && decimal(value.text) === decimal(String(cell)),
  double: (value, cell) => value instanceof Digits && typeof cell === 'number' && isWhole(value.text, cell),
  numeric: (value, cell) => value instanceof Digits && decimal(value.text) === decimal(String(cell)),
  date: (value, cell) => value === cell,
  timestamp: (value, cell) => typeof value === 'string' && utcText(value) === cell,
  text: (value, cell) => {
    if (value instanceof Digits) return typeof cell === 'string' && decimal(value.text) === decimal(cell);
    return (typeof value === 'string' ? storable(value) : written(value)) === cell;
  },
  json: (value, cell) => typeof cell === 'string' && canonicalStored(value) === canonical(parsed(cell)),
};

/** Null where the cell of a column is what the record says, else what it should be. */
export function cellFault(type: ColumnType, value: Value, cell: unknown): string | null {
  // What is inside a list or an object stands in columns and rows of its own.
  const own = type !== 'json' && (isList(value) || isFields(value)) ? null : value;
  const isRight = own === null ? cell === null : cell !== null && AGREES[type](own, cell);
  return isRight ? null : `is ${shown(cell)}, should be ${own === null ? 'null' : canonical(own)} as ${type}`;
}

function shown(cell: unknown): string {
  return typeof cell === 'bigint' ? String(cell) : JSON.stringify(cell);
}

/** True where the double, written with as many digits as the source has, is the source. */
function isWhole(source: string, cell: number): boolean {
  const wanted = decimal(source);
  const digits = Math.min(Math.max(wanted.replace('-', '').indexOf('e'), 1), 100);
  return Number(source) === cell && (wanted === decimal(String(cell)) || wanted === decimal(cell.toPrecision(digits)));
}

const MOMENT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[-+]\d\d:?\d\d)?)?$/;

/** A moment in UTC, milliseconds only where there are any; undefined for what is none. */
function utcText(text: string): string | undefined {
  const [, day, minute = '00:00', second = '00', fraction = '', zone = 'Z'] = MOMENT.exec(text) ?? [];
  const at = Date.parse(`${day}T${minute}:${second}.${fraction.padEnd(3, '0').slice(0, 3)}${zone}`);
  return Number.isNaN(at)
    ? undefined
    : new Date(at).toISOString().replace('T', ' ').replace('Z', '').replace('.000', '');
}
