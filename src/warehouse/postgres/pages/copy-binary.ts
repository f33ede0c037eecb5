import type { Cell } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { CopyWriter, type CopyData, type CopyMemory } from '../connection/copy-data.ts';
import { daysOf, millisecondsOf } from './binary-times.ts';
import { SHORT, UNIT_BYTES, writeAscii, type CopyFormat } from './copy-text.ts';

/*
 * Postgres's binary format of COPY: a field is its length and its bytes, in the network's order. It costs the server about
 * half of what the text format does, which it reads byte by byte, and nothing in it has to be escaped.
 */
const SIGNATURE = Buffer.from('PGCOPY\n\u00FF\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const END = Buffer.of(255, 255);
/** Of the cells of a row. */
const COUNT_BYTES = 2;

const TWO_32 = 2 ** 32;
const LENGTH_BYTES = 4;
/** Before the text of a `jsonb`: the version of its format. */
const JSON_VERSION = 1;

/** Writes a cell as a field; returns false if the format cannot say exactly what its text says. */
export type PutCell = (out: CopyFields, cell: Cell) => boolean;

/** By the type of the column; null for one whose cells are only written as text. */
export const PUT_CELL: Readonly<Record<ColumnType, PutCell | null>> = {
  boolean: (out, cell) => typeof cell === 'boolean' && out.boolean(cell),
  integer: (out, cell) => out.integer(cell),
  double: (out, cell) => typeof cell === 'number' && out.double(cell),
  numeric: null,
  date: (out, cell) => typeof cell === 'string' && out.date(cell),
  timestamp: (out, cell) => typeof cell === 'string' && out.timestamp(cell),
  text: (out, cell) => typeof cell === 'string' && out.text(cell),
  json: (out, cell) => typeof cell === 'string' && out.json(cell),
};

/** What Postgres says of a result's columns that take these fields: numbers of its types. */
export const TYPE_NUMBERS: Readonly<Record<ColumnType, number>> = {
  boolean: 16,
  integer: 20,
  double: 701,
  numeric: 1700,
  date: 1082,
  timestamp: 1184,
  text: 25,
  json: 3802,
};

/** Rows of a COPY in the binary format, written as bytes at once. */
export class CopyFields extends CopyWriter implements CopyFormat {
  readonly #puts: readonly PutCell[];
  /** The place of the next cell in its row. */
  #column = 0;
  #isExact = true;
  /** The last time that was written: rows of a page have one in common. */
  #time = '';
  #timeHigh = 0;
  #timeLow = 0;

  /** With room for about so many bytes, it grows if they are more; a `PutCell` for each cell of a row. */
  constructor(memory: CopyMemory, expectedBytes: number, puts: readonly PutCell[]) {
    super(memory, expectedBytes, SIGNATURE, END);
    this.#puts = puts;
  }

  add(cell: Cell | undefined): void {
    const put = this.#next();
    if (cell === null || cell === undefined) {
      this.makeRoom(LENGTH_BYTES);
      this.#int32(-1);
    } else if (put?.(this, cell) !== true) this.#isExact = false;
  }

  addBytes(bytes: Buffer): void {
    this.#next();
    this.makeRoom(LENGTH_BYTES + bytes.length);
    this.#int32(bytes.length);
    this.length += bytes.copy(this.bytes, this.length);
  }

  endLine(): void {
    if (this.#column !== this.#puts.length) this.#isExact = false;
    this.#column = 0;
  }

  text(text: string): true {
    this.makeRoom(LENGTH_BYTES + text.length * UNIT_BYTES);
    this.#putUtf8(text, 0);
    return true;
  }

  json(text: string): true {
    this.makeRoom(LENGTH_BYTES + 1 + text.length * UNIT_BYTES);
    this.bytes[this.length + LENGTH_BYTES] = JSON_VERSION;
    this.#putUtf8(text, 1);
    return true;
  }

  boolean(value: boolean): true {
    this.makeRoom(LENGTH_BYTES + 1);
    this.#int32(1);
    this.bytes[this.length++] = value ? 1 : 0;
    return true;
  }

  integer(cell: Cell): boolean {
    if (typeof cell === 'number' && Number.isSafeInteger(cell)) {
      const high = Math.floor(cell / TWO_32);
      this.#int64(high, cell - high * TWO_32);
      return true;
    }
    if (typeof cell !== 'bigint' || BigInt.asIntN(64, cell) !== cell) return false;
    this.#int64(Number(cell >> 32n), Number(cell & 0xff_ff_ff_ffn));
    return true;
  }

  double(value: number): true {
    this.makeRoom(LENGTH_BYTES + 8);
    this.#int32(8);
    this.length = this.bytes.writeDoubleBE(value, this.length);
    return true;
  }

  date(text: string): boolean {
    const days = daysOf(text);
    if (days === null) return false;
    this.makeRoom(LENGTH_BYTES + 4);
    this.#int32(4);
    this.#int32(days);
    return true;
  }

  timestamp(text: string): boolean {
    if (text !== this.#time) {
      const hasMicros = text.length === 26;
      const at = millisecondsOf(hasMicros ? text.slice(0, 23) : text);
      const micros = hasMicros ? Number(text.slice(23)) : 0;
      if (at === null || Number.isNaN(micros)) return false;
      // Microseconds may be more than a number holds exactly: the halves never are.
      const high = Math.floor(at / TWO_32);
      const low = (at - high * TWO_32) * 1000 + micros;
      const carried = Math.floor(low / TWO_32);
      this.#time = text;
      this.#timeHigh = high * 1000 + carried;
      this.#timeLow = low - carried * TWO_32;
    }
    this.#int64(this.#timeHigh, this.#timeLow);
    return true;
  }

  /** All that was added; null if a cell could not be. */
  data(): CopyData | null {
    return this.#isExact ? this.ended() : this.dropped();
  }

  /** Before the first cell of a row stands how many there are. */
  #next(): PutCell | undefined {
    if (this.#column === 0) {
      this.beginRow();
      this.makeRoom(COUNT_BYTES);
      this.bytes[this.length++] = this.#puts.length >> 8;
      this.bytes[this.length++] = this.#puts.length;
    }
    return this.#puts[this.#column++];
  }

  #int32(value: number): void {
    const { bytes, length: at } = this;
    bytes[at] = value >> 24;
    bytes[at + 1] = value >> 16;
    bytes[at + 2] = value >> 8;
    bytes[at + 3] = value;
    this.length = at + 4;
  }

  #int64(high: number, low: number): void {
    this.makeRoom(LENGTH_BYTES + 8);
    this.#int32(8);
    this.#int32(high);
    this.#int32(low);
  }

  /** The length of a field and its text, behind so many bytes of it that are there already. */
  #putUtf8(text: string, before: number): void {
    const from = this.length + LENGTH_BYTES + before;
    const ascii = text.length < SHORT ? writeAscii(this.bytes, from, text) : 0;
    const written = ascii > 0 ? ascii : this.bytes.write(text, from);
    this.#int32(before + written);
    this.length = from + written;
  }
}
