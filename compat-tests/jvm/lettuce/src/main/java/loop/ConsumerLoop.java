package loop;

import io.lettuce.core.Consumer;
import io.lettuce.core.RedisBusyException;
import io.lettuce.core.RedisClient;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.XAutoClaimArgs;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.models.stream.ClaimedMessages;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * A worker: reads new entries, acknowledges them, and on every turn takes over what others left idle, walking the
 * pending list by XAUTOCLAIM's cursor. Ends when it has settled an entry with the field {@code stop}.
 *
 * <p>Arguments: redis URI, stream, group, consumer, number of entries after which it halts without a word (0: never).
 */
public final class ConsumerLoop {
    private static final Duration IDLE = Duration.ofMillis(400);

    private final RedisCommands<String, String> redis;
    private final String stream, group, name;
    private final int crashAfter;
    private int handled;
    private boolean stopped;

    private ConsumerLoop(RedisCommands<String, String> redis, String[] args) {
        this.redis = redis;
        this.stream = args[1];
        this.group = args[2];
        this.name = args[3];
        this.crashAfter = Integer.parseInt(args[4]);
    }

    public static void main(String[] args) {
        RedisClient client = RedisClient.create(args[0]);
        try (var connection = client.connect()) {
            new ConsumerLoop(connection.sync(), args).run();
        } finally {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
        }
    }

    private void run() {
        try {
            redis.xgroupCreate(StreamOffset.from(stream, "0"), group, XGroupCreateArgs.Builder.mkstream());
        } catch (RedisBusyException e) {
            // Another worker was first: Lettuce names this error by its first word, BUSYGROUP.
        }
        String cursor = "0-0";
        while (!stopped) {
            List<StreamMessage<String, String>> fresh = redis.xreadgroup(Consumer.from(group, name),
                    XReadArgs.Builder.count(5).block(Duration.ofMillis(200)), StreamOffset.lastConsumed(stream));
            fresh.forEach(m -> settle(m, "new"));
            ClaimedMessages<String, String> left = redis.xautoclaim(stream,
                    new XAutoClaimArgs<String>().consumer(Consumer.from(group, name)).minIdleTime(IDLE).startId(cursor).count(3));
            left.getMessages().forEach(m -> settle(m, "claimed"));
            cursor = left.getId();
        }
    }

    private void settle(StreamMessage<String, String> m, String how) {
        if (crashAfter > 0 && ++handled > crashAfter) {
            Runtime.getRuntime().halt(137);
        }
        redis.xadd(stream + ".done", Map.of("n", m.getBody().getOrDefault("n", ""), "by", name, "how", how));
        redis.xack(stream, group, m.getId());
        stopped |= m.getBody().containsKey("stop");
    }
}
