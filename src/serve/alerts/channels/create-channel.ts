import type { ChannelSettings } from '../../../settings/alerts-schema.ts';
import type { Channel } from './channel.ts';
import { emailChannel } from './email.ts';
import { postChannel, slackChannel } from './post.ts';

/** Opens nothing before the first message. */
export function createChannel(settings: ChannelSettings): Channel {
  if (settings.type === 'post') return postChannel(settings);
  return settings.type === 'slack' ? slackChannel(settings) : emailChannel(settings);
}
