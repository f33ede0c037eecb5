import { existsSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';
import { ConfigError } from '../model/errors.ts';
import type { BaseRecords } from './records/base-records.ts';
import { noRecords, readRecords } from './records/base-records.ts';
import { generatedRecords } from './records/generated-records.ts';
import { imageBytes, imageFiles, type ImageFiles } from './records/image-files.ts';
import type { SandboxSettings } from './sandbox-options.ts';

/** Resources that are always there, if only empty. */
const STANDARD = ['content', 'images', 'analytics'] as const;

type DataSettings = Pick<SandboxSettings, 'data' | 'generate' | 'generateFlat' | 'sort'>;

/** The first records: generated if a count is given, else read from the folder, else none. Throws ConfigError. */
export function startingRecords(settings: DataSettings): Map<string, BaseRecords> {
  const files = settings.data === null ? new Map<string, string>() : recordFiles(settings.data);
  const names = new Set([...STANDARD, ...files.keys(), ...Object.keys(settings.generate)]);
  return new Map([...names].map((name) => [checked(name), recordsOf(name, files.get(name), settings)]));
}

/** Image bytes from the folder's `files/`, and made up for made-up images. */
export function startingFiles(settings: DataSettings, images: BaseRecords | undefined): ImageFiles {
  const made = (settings.generate['images'] ?? 0) > 0;
  const folder = settings.data === null ? null : join(settings.data, 'files');
  return imageFiles(folder, (id) => (made && images?.positionOf(id) !== -1 ? imageBytes(id) : null));
}

function recordsOf(
  name: string,
  file: string | undefined,
  { generate, generateFlat, sort }: DataSettings,
): BaseRecords {
  const count = generate[name];
  if (count !== undefined) return generatedRecords(name, count, sort, generateFlat);
  return file === undefined ? noRecords(sort) : readRecords(file, sort);
}

function recordFiles(folder: string): Map<string, string> {
  if (!existsSync(folder)) {
    throw new ConfigError('sandbox_data', `The data folder ${folder} does not exist.`, {
      hint: 'Name a folder that holds content.ndjson, images.ndjson or analytics.ndjson.',
    });
  }
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return new Map(files.map((file) => [parse(file).name, join(folder, file)]));
}

function checked(name: string): string {
  if (/^[a-z][a-z0-9_-]*$/.test(name) && name !== 'webhooks') return name;
  throw new ConfigError('sandbox_data', `"${name}" cannot be the name of a resource.`, {
    hint: 'Use a lower-case name other than "webhooks".',
  });
}
