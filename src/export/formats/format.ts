// What an export format has to provide.
import type { DecimalSpan, ReadColumn, ViewCell } from '../../database/snapshot-reader.ts';

/** A column in a file. */
export interface ExportColumn extends ReadColumn {
  /** The type in terms of the format, such as `TIMESTAMP(MICROS,UTC)`; for readers of the manifest. */
  stored: string;
}

/** Encodes the rows of one file. */
export interface FileEncoder {
  /** Takes rows and returns the bytes that are ready, which may be none. */
  add(rows: readonly (readonly ViewCell[])[]): Uint8Array;
  /** Returns the rest of the file. */
  end(): Uint8Array;
}

export interface ExportFormat {
  name: FormatName;
  /** Chooses the type of a column; `span` are the digits of its numerics, or null if they are not known. */
  stored(column: ReadColumn, span: DecimalSpan | null): string;
  begin(columns: readonly ExportColumn[], form: FileForm): FileEncoder | Promise<FileEncoder>;
  /** The default comes first. */
  compressions: readonly string[];
  /** Names of options on the command line. */
  options: readonly FormatOption[];
}

export const FORMAT_OPTIONS = ['bom', 'escape-formulas'] as const;
export type FormatOption = (typeof FORMAT_OPTIONS)[number];

/** The chosen compression and options of a format. */
export interface FileForm {
  compression: string;
  options: readonly FormatOption[];
}

export const FORMAT_NAMES = ['parquet', 'csv', 'ndjson'] as const;
export type FormatName = (typeof FORMAT_NAMES)[number];
