import type { Cell } from '../../../model/table.ts';

/** Postgres's text format of COPY: a line per row, tabs between cells, and escapes for what would be ambiguous. */
const NULL = '\\N';
const SPECIAL = /[\\\n\r\t]/;
const SPECIAL_BYTES = [92, 10, 13, 9];
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const TAB = 9;
const NEWLINE = 10;

/** Bytes of UTF-8 per UTF-16 unit at most, and of the separator and the end of the line. */
const MAX_BYTES_PER_UNIT = 3;
const SEPARATOR_BYTES = 2;
const MIN_BYTES = 4_096;

/** Lines of a COPY, encoded into one buffer: the texts of a page need not be kept until its end. */
export class CopyLines {
  #bytes: Buffer;
  #length = 0;
  #isInLine = false;

  /** `expectedBytes` is an estimate: the buffer grows. */
  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafe(Math.max(expectedBytes, MIN_BYTES));
  }

  add(cell: Cell | undefined): void {
    const text = copyCell(cell);
    this.#separate(text.length * MAX_BYTES_PER_UNIT);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** Adds a cell by its UTF-8 bytes. */
  addBytes(bytes: Buffer): void {
    const isSpecial = SPECIAL_BYTES.some((byte) => bytes.includes(byte));
    const written = isSpecial ? Buffer.from(escaped(bytes.toString('latin1')), 'latin1') : bytes;
    this.#separate(written.length);
    this.#length += written.copy(this.#bytes, this.#length);
  }

  endLine(): void {
    this.#bytes[this.#length++] = NEWLINE;
    this.#isInLine = false;
  }

  data(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Makes room for a cell, its separator and the end of the line. */
  #separate(cellBytes: number): void {
    const needed = this.#length + cellBytes + SEPARATOR_BYTES;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    if (this.#isInLine) this.#bytes[this.#length++] = TAB;
    this.#isInLine = true;
  }
}

export function copyCell(cell: Cell | undefined): string {
  if (typeof cell === 'string') return SPECIAL.test(cell) ? escaped(cell) : cell;
  if (cell === null || cell === undefined) return NULL;
  return Object.is(cell, -0) ? '-0' : String(cell);
}

function escaped(text: string): string {
  return text.replaceAll(/[\\\n\r\t]/g, (sign) => ESCAPES[sign] ?? sign);
}
