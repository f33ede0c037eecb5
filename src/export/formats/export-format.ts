// The interface of an export format, such as CSV: the types of its columns, and an encoder of rows for each file.
import type { DecimalSpan, ReadColumn, ViewCell } from '../../database/snapshot-reader.ts';

/** A column in a file. */
export interface ExportColumn extends ReadColumn {
  /** Its type in the file, such as `TIMESTAMP(MICROS,UTC)`; the manifest lists it. */
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
  /** Its command (`export csv`) and the extension of its files. */
  name: string;
  /** For the help of the command. */
  about: string;
  /** The default comes first. */
  compressions: readonly string[];
  /** Flags of the command with their help, such as `bom` for `--bom`. */
  options: Readonly<Record<string, string>>;
  /** True if the type of a numeric column depends on its digits, which take a query of the whole column to count. */
  needsDecimalSpan: boolean;
  /** Chooses the type of a column in files; `span` is null if it is not numeric, or its digits were not counted. */
  chooseType(column: ReadColumn, span: DecimalSpan | null): string;
  /** Begins a file. */
  begin(columns: readonly ExportColumn[], fileOptions: FileOptions): FileEncoder | Promise<FileEncoder>;
}

/** How the files of an export are written, as the user has chosen it. */
export interface FileOptions {
  /** One of the format's `compressions`. */
  compression: string;
  /** The chosen flags among the format's `options`. */
  options: readonly string[];
}

/** Formats `2024-01-01 08:49:39.676` as `2024-01-01T08:49:39.676Z`. */
export function formatIsoTime(cell: Exclude<ViewCell, null>): string {
  return `${String(cell).replace(' ', 'T')}Z`;
}
