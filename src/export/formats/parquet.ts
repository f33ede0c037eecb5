// The export format Parquet. The rows of a file are encoded and written in row groups, so that only one is in memory.
import { constants, zstdCompressSync } from 'node:zlib';
import type { ByteWriter, SchemaElement } from 'hyparquet-writer';
import { typeMismatch, type ReadColumn, type ViewCell } from '../../database/snapshot-reader.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { ExportColumn, ExportFormat, FileEncoder, FileOptions } from './export-format.ts';

/** Limits of a row group, of which the encoder needs several copies in memory. */
const MAX_GROUP_ROWS = 50_000;
const MAX_GROUP_BYTES = 16 * 1_048_576;

const CODECS = { zstd: 'ZSTD', snappy: 'SNAPPY', none: 'UNCOMPRESSED' } as const;

/** All readers support decimals of this many digits. */
const DECIMAL_DIGITS = 38;
const DECIMAL_BYTES = 16;

export const PARQUET: ExportFormat = {
  name: 'parquet',
  about: 'typed, for DuckDB, Spark, BigQuery and others',
  compressions: Object.keys(CODECS),
  options: {},
  needsDecimalSpan: true,
  chooseType: ({ type }, span) => {
    if (type !== 'numeric') return TYPES[type];
    // Only the scale varies, because each other type makes the next export rewrite all files.
    return span === null || span.whole + span.scale > DECIMAL_DIGITS
      ? TYPES.text
      : `DECIMAL(${DECIMAL_DIGITS},${span.scale})`;
  },
  begin,
};

/** Types of columns in Parquet. */
const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'INT64',
  double: 'DOUBLE',
  numeric: 'DECIMAL',
  date: 'DATE',
  timestamp: 'TIMESTAMP(MICROS,UTC)',
  text: 'STRING',
  json: 'JSON',
};

async function begin(columns: readonly ExportColumn[], { compression }: FileOptions): Promise<FileEncoder> {
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer');
  const writer = new ByteWriter();
  const encodings = columns.map(chooseEncoding);
  const parquet = new ParquetWriter({
    writer,
    schema: [
      { name: 'root', num_children: columns.length },
      ...columns.map(({ name }, at): SchemaElement => ({
        name,
        repetition_type: 'OPTIONAL',
        ...encodings[at]?.element,
      })),
    ],
    codec: Object.entries(CODECS).find(([name]) => name === compression)?.[1] ?? CODECS.zstd,
    compressors: { ZSTD: (bytes) => zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }) },
    createdBy: 'content-sync',
  });
  let group = columns.map((): unknown[] => []);
  let [rowCount, size] = [0, 0];
  const writeGroup = (): void => {
    // Minimum and maximum of JSON are useless, and as long as the values.
    const columnData = columns.map(({ name, type }, at) => ({
      name,
      data: group[at] ?? [],
      statistics: type !== 'json',
    }));
    if (rowCount > 0) void parquet.write({ columnData, rowGroupSize: rowCount });
    group = columns.map((): unknown[] => []);
    [rowCount, size] = [0, 0];
  };
  return {
    add: (rows) => {
      for (const row of rows) {
        row.forEach((cell, at) => group[at]?.push(cell === null ? null : encodings[at]?.value(cell)));
        for (const cell of row) size += typeof cell === 'string' ? cell.length : 8;
        rowCount += 1;
        if (rowCount >= MAX_GROUP_ROWS || size >= MAX_GROUP_BYTES) writeGroup();
      }
      return takeBytes(writer);
    },
    end: () => {
      writeGroup();
      // Only now: earlier, the writer would parse the JSON and print its numbers as doubles.
      for (const element of parquet.schema) if (element.logical_type?.type === 'JSON') element.converted_type = 'JSON';
      void parquet.finish();
      return takeBytes(writer);
    },
  };
}

/** Returns and removes the bytes that the writer holds. */
function takeBytes(writer: ByteWriter): Uint8Array {
  const bytes = new Uint8Array(writer.buffer, 0, writer.index).slice();
  writer.index = 0;
  return bytes;
}

/** How the values of a column are stored: its schema, and the conversion of each value. */
interface ColumnEncoding {
  element: Omit<SchemaElement, 'name'>;
  value: (cell: Exclude<ViewCell, null>) => unknown;
}

function chooseEncoding(column: ExportColumn): ColumnEncoding {
  const scale = /^DECIMAL\(\d+,(\d+)\)$/.exec(column.stored)?.[1];
  if (scale !== undefined) return decimalEncoding(Number(scale));
  return column.type === 'numeric' ? ENCODINGS.text(column) : ENCODINGS[column.type](column);
}

const ENCODINGS: Readonly<Record<Exclude<ColumnType, 'numeric'>, (column: ReadColumn) => ColumnEncoding>> = {
  boolean: () => ({ element: { type: 'BOOLEAN' }, value: (cell) => cell }),
  integer: () => ({ element: { type: 'INT64' }, value: (cell) => cell }),
  double: () => ({ element: { type: 'DOUBLE' }, value: (cell) => cell }),
  date: (column) => ({
    element: { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } },
    value: (cell) => Number(parseMicroseconds(`${cell.toString()} 00:00:00`, column) / DAY_MICROS),
  }),
  timestamp: (column) => ({
    element: {
      type: 'INT64',
      converted_type: 'TIMESTAMP_MICROS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
    },
    value: (cell) => parseMicroseconds(cell.toString(), column),
  }),
  text: () => ({
    element: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
    value: String,
  }),
  json: () => ({ element: { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } }, value: String }),
};

const DAY_MICROS = 86_400_000_000n;
const TIMESTAMP = /^(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?$/;

/** Parses a UTC text into microseconds since 1970. */
function parseMicroseconds(text: string, column: ReadColumn): bigint {
  const [, day = '', time = '00:00:00', fraction = ''] = TIMESTAMP.exec(text) ?? [];
  const at = Date.parse(`${day}T${time}Z`);
  if (Number.isNaN(at)) throw typeMismatch(text, column);
  return BigInt(at) * 1_000n + BigInt(fraction.padEnd(6, '0'));
}

function decimalEncoding(scale: number): ColumnEncoding {
  return {
    element: {
      type: 'FIXED_LEN_BYTE_ARRAY',
      type_length: DECIMAL_BYTES,
      converted_type: 'DECIMAL',
      logical_type: { type: 'DECIMAL', precision: DECIMAL_DIGITS, scale },
      precision: DECIMAL_DIGITS,
      scale,
    },
    value: (cell) => {
      const [whole = '', fraction = ''] = String(cell).split('.');
      return BigInt(whole + fraction.padEnd(scale, '0'));
    },
  };
}
