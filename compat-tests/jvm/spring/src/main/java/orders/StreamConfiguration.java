package orders;

import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.RedisSystemException;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamMessageListenerContainerOptions;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamReadRequest;

/** One container, two subscriptions: orders with manual ack, notices with automatic ack. */
@Configuration
class StreamConfiguration {
    private static final Logger log = LoggerFactory.getLogger(StreamConfiguration.class);

    @Bean(initMethod = "start", destroyMethod = "stop")
    StreamMessageListenerContainer<String, MapRecord<String, String, String>> container(RedisConnectionFactory factory,
            StringRedisTemplate redis, OrdersProperties names, Billing billing) {
        group(redis, names.stream(), names.group());
        group(redis, names.notices(), names.group());
        var options = StreamMessageListenerContainerOptions.builder().batchSize(10).pollTimeout(Duration.ofMillis(500))
                .errorHandler(e -> log.warn("listener: {}", e.toString())).build();
        var container = StreamMessageListenerContainer.create(factory, options);
        var consumer = Consumer.from(names.group(), names.consumer());

        container.register(StreamReadRequest.builder(StreamOffset.create(names.stream(), ReadOffset.lastConsumed()))
                .consumer(consumer).autoAcknowledge(false).cancelOnError(e -> false).build(), order -> {
                    billing.bill(order, "listener");
                    redis.opsForStream().acknowledge(names.group(), order);
                });
        container.receiveAutoAck(consumer, StreamOffset.create(names.notices(), ReadOffset.lastConsumed()),
                notice -> billing.bill(notice, "notice"));
        return container;
    }

    private static void group(StringRedisTemplate redis, String stream, String group) {
        try {
            redis.opsForStream().createGroup(stream, ReadOffset.from("0"), group);
        } catch (RedisSystemException e) {
            if (e.getCause() == null || !String.valueOf(e.getCause().getMessage()).startsWith("BUSYGROUP")) {
                throw e;
            }
        }
    }
}
