import type { DecimalSpan, ReadColumn, ViewCell } from '../../database/snapshot-reader.ts';

/** A column as files hold it. */
export interface ExportColumn extends ReadColumn {
  /** In the words of the format, such as `TIMESTAMP(MICROS,UTC)`; for readers of the manifest. */
  stored: string;
}

/** Rows into the bytes of one file. */
export interface PartEncoder {
  /** Takes rows; returns the bytes that are ready by then, which may be none. */
  add(rows: readonly (readonly ViewCell[])[]): Uint8Array;
  /** The rest of the file. */
  end(): Uint8Array;
}

/** A kind of file. */
export interface Format {
  name: FormatName;
  /** What becomes of a column; `span` of the digits of its numerics, null if that is not known. */
  stored(column: ReadColumn, span: DecimalSpan | null): string;
  /** Begins a file. */
  begin(columns: readonly ExportColumn[], form: FileForm): PartEncoder | Promise<PartEncoder>;
  /** Ways to compress, the usual one first. */
  compressions: readonly string[];
  /** What can be chosen besides, by the names of the command line. */
  options: readonly FormatOption[];
}

export const FORMAT_OPTIONS = ['bom', 'escape-formulas'] as const;
export type FormatOption = (typeof FORMAT_OPTIONS)[number];

/** How a format writes its files: with one of its compressions, and some of its options. */
export interface FileForm {
  compression: string;
  options: readonly FormatOption[];
}

export const FORMAT_NAMES = ['parquet', 'csv', 'ndjson'] as const;
export type FormatName = (typeof FORMAT_NAMES)[number];

/** `2024-01-01 08:49:39.676` as `2024-01-01T08:49:39.676Z`. */
export function isoText(moment: string): string {
  return `${moment.replace(' ', 'T')}Z`;
}
