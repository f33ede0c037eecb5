import { existsSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { type BaseRecords, noRecords, readRecords, type Sort } from './base-records.ts';
import { generatedRecords } from './generated-records.ts';
import { imageFiles, type ImageFiles } from './image-files.ts';
import { pictureOf } from './made-pictures.ts';
import { recordStore, type RecordChange, type RecordStore } from './store.ts';

export interface DataSettings {
  /** A folder with `<resource>.ndjson` and `files/`. */
  data: string | null;
  /** Records to generate, by resource. */
  generate: Readonly<Record<string, number>>;
  /** Generated records hold no arrays. */
  generateFlat: boolean;
  sort: Sort;
  /** Milliseconds after which listings show a write. */
  visibilityLag: number;
}

/** Resources that always exist, if only empty. */
const STANDARD_RESOURCES = ['content', 'images', 'analytics'] as const;

/**
 * The store with its first records: generated if a count is given, else read from the folder, else none. `changed` is
 * called with every change. Throws ConfigError.
 */
export function openRecords(
  settings: DataSettings,
  clock: Clock,
  changed: (change: RecordChange) => void,
): RecordStore {
  const files = settings.data === null ? new Map<string, string>() : findRecordFiles(settings.data);
  const names = new Set([...STANDARD_RESOURCES, ...files.keys(), ...Object.keys(settings.generate)]);
  const bases = new Map([...names].map((name) => [checkName(name), openResource(name, files.get(name), settings)]));
  const { sort, visibilityLag: visibilityLagMs } = settings;
  return recordStore({ bases, files: openFiles(settings, bases.get('images')), sort, visibilityLagMs, clock, changed });
}

/** Image bytes from the folder's `files/`, and generated ones for generated images. */
function openFiles(settings: DataSettings, images: BaseRecords | undefined): ImageFiles {
  const isGenerated = (settings.generate['images'] ?? 0) > 0;
  const folder = settings.data === null ? null : join(settings.data, 'files');
  return imageFiles(folder, (id) => (isGenerated && images?.positionOf(id) !== -1 ? pictureOf(id) : null));
}

function openResource(
  name: string,
  file: string | undefined,
  { generate, generateFlat, sort }: DataSettings,
): BaseRecords {
  const count = generate[name];
  if (count !== undefined) return generatedRecords(name, count, sort, generateFlat);
  return file === undefined ? noRecords(sort) : readRecords(file, sort);
}

function findRecordFiles(folder: string): Map<string, string> {
  if (!existsSync(folder)) {
    throw new ConfigError('sandbox_data', `The data folder ${folder} does not exist.`, {
      hint: 'Name a folder that holds content.ndjson, images.ndjson or analytics.ndjson.',
    });
  }
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return new Map(files.map((file) => [parse(file).name, join(folder, file)]));
}

function checkName(name: string): string {
  if (/^[a-z][a-z0-9_-]*$/.test(name) && name !== 'webhooks') return name;
  throw new ConfigError('sandbox_data', `"${name}" cannot be the name of a resource.`, {
    hint: 'Use a lower-case name other than "webhooks".',
  });
}
