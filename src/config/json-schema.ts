import { z } from 'zod';
import { profileSchema } from './profile/profile.ts';
import { anySettingsSchema } from './settings.ts';

type JsonSchema = z.core.JSONSchema.JSONSchema;

/** JSON Schema of the config file, for editors and `content-sync config schema`. */
export function configJsonSchema(): JsonSchema {
  return { title: 'content-sync config', ...z.toJSONSchema(anySettingsSchema, { io: 'input' }) };
}

/**
 * JSON Schema of a profile, for editors. Nothing is required in it, because a profile with `extends` holds only what
 * differs from its base, and null leaves a resource out; loading checks that the whole is complete.
 */
export function profileJsonSchema(): JsonSchema {
  const schema = z.toJSONSchema(profileSchema, { io: 'input', override: ({ jsonSchema }) => loosen(jsonSchema) });
  const resources = schema.properties?.['resources'];
  if (typeof resources === 'object' && typeof resources.additionalProperties === 'object') {
    const resource = resources.additionalProperties;
    resources.additionalProperties = { anyOf: [resource, { type: 'null' }] };
    const defaults = schema.properties?.['defaults'];
    if (typeof defaults === 'object') delete Object.assign(defaults, resource).propertyNames;
  }
  return { title: 'content-sync profile', ...schema };
}

function loosen(schema: JsonSchema): void {
  delete schema.required;
  const { lookback } = schema.properties ?? {};
  if (schema.properties !== undefined && lookback !== undefined) {
    schema.properties['overlap'] = { deprecated: true, description: 'Former name of lookback', type: 'string' };
  }
  // A part of a map may fit several branches of a union, which `oneOf` would refuse.
  if (schema.oneOf === undefined) return;
  schema.anyOf = schema.oneOf;
  delete schema.oneOf;
}
