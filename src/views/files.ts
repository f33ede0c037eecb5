import {
  ownColumn,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/**
 * `<resource>_files` and `<resource>_files_live`, if files are copied or were: the contents of files over time, and the
 * current files of live records. The bytes are in a store.
 */
export function filesViews(model: ViewModel, planned: PlannedViews): View[] {
  return model.resources.flatMap((resource) => {
    const live = planned.get(`${resource.tables[0]?.name ?? ''}_live`);
    return !resource.hasFiles || live === undefined ? [] : [allFiles(model, resource), liveFiles(model, resource)];
  });
}

function allFiles(model: ViewModel, resource: ViewedResource): View {
  return {
    name: `${resource.resource}_files`,
    resource: resource.resource,
    description: `Every content that a file of a ${resource.resource} record had, one row from valid_from to valid_to. The bytes stand in a store, under sha256.`,
    columns: fileColumns(model, resource),
    from: ` FROM ${FILES} AS ${FILE} WHERE ${ofResource(model, resource)}`,
  };
}

function liveFiles(model: ViewModel, resource: ViewedResource): View {
  const id = (name: string): string => model.dialect.id(name);
  const [own] = resource.tables;
  const record = `JOIN ${id(own?.name ?? '')} AS ${RECORD} ON ${RECORD}.${id(own?.key[0] ?? '')} = ${FILE}.${id('record_id')}`;
  const isLive = `${RECORD}.${id('_deleted_at')} IS NULL AND ${FILE}.${id('valid_to')} IS NULL`;
  return {
    name: `${resource.resource}_files_live`,
    resource: resource.resource,
    description: `The files of the live ${resource.resource} records as they are now, one a row, those among them that could not be fetched.`,
    columns: fileColumns(model, resource),
    from: ` FROM ${FILES} AS ${FILE} ${record} WHERE ${ofResource(model, resource)} AND ${isLive}`,
  };
}

const FILES = '"_sync_files"';
const FILE = 'f';
const RECORD = 'r';

function ofResource({ dialect }: ViewModel, { resource }: ViewedResource): string {
  return `${FILE}.${dialect.id('resource')} = ${dialect.literal(resource)}`;
}

function fileColumns({ dialect }: ViewModel, { resource, tables: [own] }: ViewedResource): ViewColumn[] {
  const column = (name: string, type: ViewColumn['type'], description: string): ViewColumn =>
    ownColumn(name, type, `${FILE}.${dialect.id(name)}`, description);
  // Stored as small integers, but shown as BIGINT like all integers.
  const number = (name: string, description: string): ViewColumn =>
    ownColumn(name, 'integer', `CAST(${FILE}.${dialect.id(name)} AS BIGINT)`, description);
  const key = ownColumn(`${resource}_id`, 'text', `${FILE}.${dialect.id('record_id')}`, `The ${resource} record.`);
  return [
    { ...key, references: own === undefined ? null : `${own.name}.${own.key[0] ?? ''}` },
    column('field', 'text', 'Which file of the record it is, as the profile names it.'),
    number('position', 'Its place where the record has several, from 0.'),
    column('url', 'text', 'Where it was asked for.'),
    column('sha256', 'text', 'The SHA-256 of its bytes, under which they stand in the store; null before they came.'),
    column('bytes', 'integer', 'How many bytes it has.'),
    column('type', 'text', 'What it is by its content, such as image/png.'),
    number('width', 'Of a picture, in pixels.'),
    number('height', 'Of a picture, in pixels.'),
    column('fetched_at', 'timestamp', 'When the service was last found to serve this content, UTC.'),
    column('etag', 'text', 'What the service calls this content.'),
    column('status', 'text', STATUSES),
    column('error', 'text', 'Why it is not here, or not as it is served now.'),
    column('valid_from', 'timestamp', 'From when on the record showed this content, as far as the copy saw, UTC.'),
    column('valid_to', 'timestamp', 'Until when; null for what it shows now.'),
  ];
}

const STATUSES =
  'stored: here as it was served last; waiting or failed: to be fetched, what was seen last stays till then; refused: the profile does not admit it; gone: the service no longer has it.';
