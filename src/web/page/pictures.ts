import { bytesText, countText, NONE } from '../../observe/figures.ts';
import type { PictureDetails } from '../../serve/status/newest-pictures.ts';
import type { FilesStatus } from '../../serve/status/file-status.ts';
import type { ResourceStatus, SourceStatus } from '../../serve/status/snapshot.ts';
import { pathOfFile } from '../file-page.ts';
import { ago, markup, type Markup } from './markup.ts';
import { wide, type SectionView } from './page-frame.ts';

/** The files of a source's records, and the pictures among them that came last; null if none are copied. */
export function filesContent(
  { source, resources }: Pick<SourceStatus, 'source' | 'resources'>,
  pictures: readonly PictureDetails[],
  view: SectionView,
): Markup | null {
  const known = resources.flatMap(({ resource, files }) => (files === undefined ? [] : [{ resource, files }]));
  if (known.length === 0 && pictures.length === 0) return null;
  return markup`${known.length > 0 && filesTable(source, known)}${gallery(source, pictures, view)}`;
}

const COUNTS = [
  ['Stored', 'stored'],
  ['Waiting', 'waiting'],
  ['Failed', 'failed'],
  ['Refused', 'refused'],
  ['Gone', 'gone'],
] as const satisfies readonly (readonly [string, keyof FilesStatus])[];

type KnownFiles = Pick<ResourceStatus, 'resource'> & { files: FilesStatus };

function filesTable(source: string, known: readonly KnownFiles[]): Markup {
  const rows = known.map(({ resource, files }) => {
    const counts = COUNTS.map(
      ([, status]) => markup`<td class="number${files[status] === 0 ? ' quiet' : ''}">${countText(files[status])}</td>`,
    );
    return markup`<tr><td>${resource}</td>${counts}<td class="number">${bytesText(files.bytes)}</td><td class="text">${troubleOf(files)}</td></tr>`;
  });
  const titles = COUNTS.map(([title]) => markup`<th scope="col" class="number">${title}</th>`);
  const head = markup`<thead><tr><th scope="col">Resource</th>${titles}<th scope="col" class="number">Size</th><th scope="col">For example</th></tr></thead>`;
  return wide('files-table', `Files of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
}

function troubleOf({ trouble }: FilesStatus): Markup | string {
  if (trouble === null) return NONE;
  const code = trouble.code === null ? null : markup` <code>${trouble.code}</code>`;
  return markup`${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}

function gallery(source: string, pictures: readonly PictureDetails[], { may, now, root }: SectionView): Markup {
  if (!may) return markup`<p class="empty">Pictures are shown where serve.auth is set.</p>`;
  if (pictures.length === 0) return markup`<p class="empty">No picture is here yet.</p>`;
  const items = pictures.map((picture) => pictureItem(picture, `${root}${pathOfFile({ source, ...picture })}`, now));
  return markup`<h3 class="hidden">The newest pictures</h3><ul class="pictures">${items}</ul>`;
}

/** Its own size keeps the place of one that has not come yet. */
function pictureItem(
  { resource, record_id, alt, bytes, width, height, seen_at }: PictureDetails,
  address: string,
  now: number,
): Markup {
  const name = `${resource} ${record_id}`;
  const size = width === null || height === null ? null : markup` width="${width}" height="${height}"`;
  const pixels = width === null || height === null ? null : `${countText(width)} × ${countText(height)} · `;
  return markup`<li><a href="${address}"><img src="${address}" alt="${alt ?? name}"${size} loading="lazy" decoding="async"></a>
<span class="sub">${name}<br>${pixels}${bytesText(bytes)}${seen_at !== null && markup` · ${ago(seen_at, now)}`}</span></li>`;
}
