package orders;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.StreamRecords;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Service;

/** Bills one order: writes what was done, refuses a poisoned one. */
@Service
class Billing {
    private final StringRedisTemplate redis;
    private final OrdersProperties names;
    private final AtomicInteger inHand = new AtomicInteger();

    Billing(StringRedisTemplate redis, OrdersProperties names) {
        this.redis = redis;
        this.names = names;
    }

    void bill(MapRecord<String, String, String> order, String how) {
        if (names.crashWith() > 0 && inHand.incrementAndGet() >= names.crashWith()) {
            Runtime.getRuntime().halt(137);
        }
        if (order.getValue().containsKey("poison")) {
            throw new IllegalStateException("order " + order.getId() + " cannot be billed");
        }
        redis.opsForStream().add(StreamRecords.newRecord().in(names.processed())
                .ofMap(Map.of("order", order.getValue().get("order"), "by", names.consumer(), "how", how)));
    }
}
