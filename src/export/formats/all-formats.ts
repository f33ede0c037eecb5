// The list of export formats: a new format is a file in this folder and an entry here.
import { CSV } from './csv.ts';
import type { ExportFormat } from './export-format.ts';
import { NDJSON } from './ndjson.ts';
import { PARQUET } from './parquet.ts';

/** Each is a command of its own, such as `content-sync export csv`. */
export const EXPORT_FORMATS: readonly ExportFormat[] = [PARQUET, CSV, NDJSON];
