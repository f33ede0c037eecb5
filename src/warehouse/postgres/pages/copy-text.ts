import type { Cell } from '../../../model/table.ts';
import { CopyWriter, type CopyData, type CopyMemory } from '../connection/copy-data.ts';

/** Postgres's text format of COPY: a line per row, cells between tabs, and a way to say what that leaves unclear. */
const NULL = '\\N';
const UNCLEAR = /[\\\n\r\t]/;
const UNCLEAR_BYTES = [92, 10, 13, 9];
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const TAB = 9;
const NEWLINE = 10;
const BEYOND_ASCII = 128;

/** Bytes of UTF-8 per UTF-16 unit at most, and of what stands beside a cell. */
export const UNIT_BYTES = 3;
const BESIDE_BYTES = 2;
/** So short a text costs less to be written here than to be handed over. */
export const SHORT = 16;

/** Takes rows cell by cell, and writes them as one of Postgres's formats of COPY has them. */
export interface CopyFormat {
  /** The next cell of the line. */
  add(cell: Cell | undefined): void;
  /** The same as its UTF-8 bytes, which are not decoded for it. */
  addBytes(bytes: Buffer): void;
  endLine(): void;
}

const NOTHING = Buffer.alloc(0);

/** Lines of a COPY, written as bytes at once: the texts of a page would all have to be kept until its end. */
export class CopyLines extends CopyWriter implements CopyFormat {
  #isBegun = false;

  /** With room for about so many bytes; it grows if they are more. */
  constructor(memory: CopyMemory, expectedBytes: number) {
    super(memory, expectedBytes, NOTHING, NOTHING);
  }

  add(cell: Cell | undefined): void {
    const text = copyCell(cell);
    this.#separate(text.length * UNIT_BYTES);
    const written = text.length < SHORT ? writeAscii(this.bytes, this.length, text) : 0;
    this.length += written > 0 ? written : this.bytes.write(text, this.length);
  }

  addBytes(bytes: Buffer): void {
    const isUnclear = UNCLEAR_BYTES.some((byte) => bytes.includes(byte));
    const clear = isUnclear ? Buffer.from(escaped(bytes.toString('latin1')), 'latin1') : bytes;
    this.#separate(clear.length);
    this.length += clear.copy(this.bytes, this.length);
  }

  endLine(): void {
    this.bytes[this.length++] = NEWLINE;
    this.#isBegun = false;
  }

  /** All that was added. */
  data(): CopyData {
    return this.ended();
  }

  /** Makes room for a cell, and for the end of the line. */
  #separate(by: number): void {
    if (!this.#isBegun) this.beginRow();
    this.makeRoom(by + BESIDE_BYTES);
    if (this.#isBegun) this.bytes[this.length++] = TAB;
    this.#isBegun = true;
  }
}

/** Returns the bytes written; 0 if the text holds anything else. */
export function writeAscii(bytes: Buffer, from: number, text: string): number {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= BEYOND_ASCII) return 0;
    bytes[from + at] = code;
  }
  return text.length;
}

export function copyCell(cell: Cell | undefined): string {
  if (typeof cell === 'string') return UNCLEAR.test(cell) ? escaped(cell) : cell;
  if (cell === null || cell === undefined) return NULL;
  return Object.is(cell, -0) ? '-0' : String(cell);
}

/** Approximate bytes of a cell in a list of short ones. */
export const CELL_BYTES = 16;

/** Rows of so many cells each. */
export function addRows(lines: CopyFormat, cells: readonly Cell[], width: number): void {
  for (let at = 0; at < cells.length; at += width) {
    for (let cell = 0; cell < width; cell += 1) lines.add(cells[at + cell]);
    lines.endLine();
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[\\\n\r\t]/g, (sign) => ESCAPES[sign] ?? sign);
}
