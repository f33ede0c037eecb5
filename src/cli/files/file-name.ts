import type { FileRow } from '../../warehouse/file-rows.ts';

/** Endings where the type's own name is another. */
const ENDINGS: Readonly<Record<string, string>> = {
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'image/x-icon': 'ico',
  'image/vnd.microsoft.icon': 'ico',
  'image/tiff': 'tif',
  'video/quicktime': 'mov',
  'video/x-matroska': 'mkv',
  'audio/mpeg': 'mp3',
  'audio/x-wav': 'wav',
  'text/plain': 'txt',
};

const LONGEST_ID = 100;

/** A name for a file of a record: of letters, digits and `-_.` only, whatever the record's id is, and never a hidden one. */
export function fileName({
  record_id,
  field,
  position,
  type,
}: Pick<FileRow, 'record_id' | 'field' | 'position' | 'type'>): string {
  const id = plain(record_id).slice(0, LONGEST_ID);
  const which = position === 0 ? field : `${field}-${position}`;
  return `${id}-${plain(which)}.${endingOf(type ?? '')}`;
}

function endingOf(type: string): string {
  const [, subtype = ''] = type.split('/');
  return ENDINGS[type] ?? (/^[a-z0-9]{1,10}$/.test(subtype) ? subtype : 'bin');
}

function plain(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N}_.-]/gu, '_').replace(/^[.-]+/, '_');
}
